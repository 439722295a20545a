"""System calls and C functions that compiled code calls.

Each is a symbol of the C library of the process, so that machine code that uses it can be stored.
"""

from __future__ import annotations

from numba import types

_CALL = types.int32(types.int32, types.intp, types.uint32, types.int32, types.intp)

#: recvmmsg(2): descriptor, address of mmsghdr[], their number, flags, address of a timeout (0: none).
recvmmsg = types.ExternalFunction("recvmmsg", _CALL)
#: sendmmsg(2): descriptor, address of mmsghdr[], their number, flags.
sendmmsg = types.ExternalFunction("sendmmsg", types.int32(types.int32, types.intp, types.uint32, types.int32))
#: memcpy(3): target, source, bytes.
memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
#: clock_gettime(2): clock, address of a timespec.
clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
#: ioctl(2): descriptor, request, address.
ioctl = types.ExternalFunction("ioctl", types.int32(types.int32, types.uint64, types.intp))
