"""Runs a program to which bpf(2) is refused (EPERM), as by the profiles of containers.

usage: without_bpf.py PROGRAM [ARGUMENT...]
"""

import ctypes
import os
import struct
import sys

# linux/prctl.h and linux/seccomp.h.
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
# Loads the number of the call; jumps over the refusal if it is not bpf (321 on x86-64).
FILTER = [
    (0x20, 0, 0, 0),
    (0x15, 0, 1, 321),
    (0x06, 0, 0, 0x00050000 | 1),
    (0x06, 0, 0, 0x7FFF0000),
]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


libc = ctypes.CDLL(None)
steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in FILTER))
program = Program(len(FILTER), ctypes.addressof(steps))
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
