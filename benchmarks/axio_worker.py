"""Measures argstream and axio under the interpreter that runs this; prints the results as JSON.

Started by ``newer_python``: both are measured here, so that their ratio is of one interpreter.
"""

import sys

from axio_peers import AXIO_PEERS
from results import gather

if __name__ == "__main__":
    print(gather(AXIO_PEERS, quick="--quick" in sys.argv).to_json())
