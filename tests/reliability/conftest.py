"""What the files of this folder share lies beside them, and is also run by fuzz.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
