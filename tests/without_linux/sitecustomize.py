"""Takes away what Linux has beyond macOS, from each Python process with this folder on its path.

`make test-portable` runs the tests of the library, the simulator and the clients so.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace

ONLY_LINUX = {
    os: (
        *("sched_getaffinity", "sched_setaffinity", "pidfd_open", "memfd_create"),
        *("copy_file_range", "splice", "setresuid", "setresgid", "getresuid", "posix_fadvise"),
        *("setns", "unshare", "eventfd", "getrandom", "preadv", "pwritev", "waitid"),
    ),
    signal: ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo"),
    socket: ("SO_PEERCRED", "SO_PASSCRED", "SOCK_CLOEXEC", "SOCK_NONBLOCK"),
    time: ("CLOCK_BOOTTIME", "CLOCK_TAI", "pthread_getcpuclockid"),
}
# They choose by the name of the platform at their import, and would look for parts of macOS.
CHOOSING = ("asyncio", "ctypes.util", "multiprocessing", "polars", "psutil", "scipy.sparse",
            "subprocess", "tempfile", "urllib.request", "uuid", "webbrowser")  # fmt: skip

for name in CHOOSING:
    with suppress(Exception):
        import_module(name)
with suppress(Exception):  # as there
    import_module("multiprocessing").set_start_method("spawn")
with suppress(ImportError):  # it would look for the libraries of macOS whenever it is asked
    threadpoolctl = import_module("threadpoolctl")
    threadpoolctl.sys = SimpleNamespace(**{**vars(sys), "platform": sys.platform})
for module, names in ONLY_LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "darwin"
