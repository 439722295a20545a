"""The C library of the process, for calls that Python does not offer.

Uses no Numba.
"""

from __future__ import annotations

import ctypes

#: ioctl of a socket: the time at which the frame read last came in, a timespec. The socket module lacks it.
SIOCGSTAMPNS = 0x8907

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.recvmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
