"""The local tier: checkpoints in the workers' own memory or disks, before the durable place.

Each process writes its part into a folder of its worker, and sends a copy to a worker on the next
node (`neighbour.py`). A step counts once all processes say that both are there, which they agree on
with the commit of a step (`tier.py`). So the loss of one node leaves every part somewhere. When all
processes start again, their workers say what their folders hold, `newest.py` finds the newest step
of which all parts are there, and each process reads them from where they lie (`gathered.py`).

Files are those of any checkpoint (`format/`), with their hashes. Agents serve them to each other
(`server.py`), for agents outlive the training processes; every message is signed with the secret of
the world (`channel.py`), and nothing is unpickled.
"""
