"""An argument that the job's args do not give.

First cause: rank ? ended with exit code 2: ... error: the following arguments are required:
--data
"""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
print(parser.parse_args().data)
