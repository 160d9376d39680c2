"""Tests of fakedev, by what they test."""

import os
import sys
from pathlib import Path

if sys.dont_write_bytecode:
    # Compiling every file again, here and in each of the programs that tests start, doubles the time of all tests:
    # what is compiled is kept, though not beside the sources, where it is not wanted.
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "compiled")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False

# jsonschema, which checks manifests of Kubernetes, imports this if it is installed. It builds 38 grammars then, in a
# second of processor time of each process that runs tests, for internationalized addresses, which no schema here has.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
