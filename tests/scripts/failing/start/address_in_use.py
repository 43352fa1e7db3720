"""A server of the script at a fixed port, which all processes of a machine want.

First cause: rank ? ended with exit code 1: OSError: [Errno 98] Address already in use

Processes: 2
"""

import socket
import time

server = socket.create_server(("127.0.0.1", 29_733))
time.sleep(600)
server.close()
