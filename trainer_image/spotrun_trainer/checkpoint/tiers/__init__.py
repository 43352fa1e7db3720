"""The local tier: checkpoints in the workers' own memory or disks, before the durable place.

Each process writes its part into a folder of its worker, and sends a copy to a worker on the next
node (`neighbour.py`). A step counts once all processes report both, which they agree on with the
commit of a step (`tier.py`). So the loss of one node leaves a copy of every part. When all
processes start again, their workers report what their folders hold, `newest.py` finds the newest
step with all its parts, and each process reads the parts from the workers that hold them
(`gathered.py`).

The files are those of any checkpoint (`format/`), with their hashes. Agents serve them to each
other (`server.py`), because agents outlive the training processes; every message is signed with the
secret of the world (`channel.py`), and nothing is unpickled.
"""
