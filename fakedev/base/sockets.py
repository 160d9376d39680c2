"""Limits of sockets; without imports, for programs that must start fast."""

#: The longest path of a UNIX socket, in bytes (sockaddr_un without its final NUL).
LONGEST_SOCKET_PATH = 107
#: Connections that wait for accept: a thousand peers may connect at once.
BACKLOG = 1024
