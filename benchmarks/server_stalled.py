"""A thousand clients that do not read: what they cost the server, and whether others feel it.

Two runs go on. One says some megabytes, and nobody reads it; the other one is watched by some who
do, and what they are sent must come in time.
"""

import json
import resource
import socket
import subprocess
import time
from dataclasses import asdict, dataclass

__all__ = ["Stalls", "stalls"]
