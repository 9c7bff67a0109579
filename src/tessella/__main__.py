"""`python -m tessella` is the command `tessella`."""

import sys

from tessella.tools.cli import main

sys.exit(main())
