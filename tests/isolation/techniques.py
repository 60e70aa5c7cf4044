"""Ways out of an isolated process tree, each a tiny program. Run inside of one: `python techniques.py FACTS.json`.

A technique returns True when it got through, or acts on its own file, `victim`, which is looked at outside afterwards.
`named` is a part of what the report must name, with the values of the facts filled in.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


class Missing(Exception):
    """The technique needs a program that is not here."""


@dataclass(frozen=True)
class Technique:
    name: str
    purpose: str
    kind: str
    act: Callable[[dict[str, Any]], Any]
    named: str


TECHNIQUES: dict[str, Technique] = {}


def technique(kind: str, named: str = "") -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    def add(act: Callable[[Any], Any]) -> Callable[[Any], Any]:
        TECHNIQUES[act.__name__] = Technique(act.__name__, (act.__doc__ or "").strip(), kind, act, named)
        return act

    return add


def program(*command: str, **options: Any) -> bool:
    if shutil.which(command[0]) is None:
        raise Missing(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, timeout=8, check=False, **options)
    return done.returncode == 0


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def address(host: str, port: int) -> bytes:
    return struct.pack("=H", 2) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)


def compiled(source: str, *options: str) -> str:
    if shutil.which("gcc") is None:
        raise Missing("there is no C compiler")
    place = tempfile.mkdtemp()
    Path(place, "a.c").write_text(source)
    done = subprocess.run(["gcc", "-o", f"{place}/a", f"{place}/a.c", *options], capture_output=True, check=False)
    if done.returncode:
        raise Missing("the C compiler cannot do this")
    return f"{place}/a"


# Connections


@technique("network", "127.0.0.1:{port}")
def tcp(facts: Any) -> bool:
    """Connect to a server of this machine."""
    socket.create_connection(("127.0.0.1", facts["port"]), 2)
    return True


@technique("network", "[::1]:{port6}")
def tcp6(facts: Any) -> bool:
    """Connect to a server of this machine over IPv6."""
    socket.create_connection(("::1", facts["port6"]), 2)
    return True


@technique("network", "192.0.2.7:443")
def far_address(facts: Any) -> bool:
    """Connect to an address in the internet."""
    socket.create_connection(("192.0.2.7", 443), 2)
    return True


@technique("network", "127.0.0.1:{port}")
def private_module(facts: Any) -> bool:
    """Connect with the `_socket` module, below all patches."""
    import _socket

    _socket.socket(2, 1).connect(("127.0.0.1", facts["port"]))
    return True


@technique("network", "127.0.0.1:{port}")
def ctypes_connect(facts: Any) -> bool:
    """Connect through the C library."""
    number = checked(libc.socket(2, 1, 0))
    checked(libc.connect(number, address("127.0.0.1", facts["port"]), 16))
    return True


@technique("network", "127.0.0.1:{port}")
def non_blocking(facts: Any) -> bool:
    """Connect without waiting for it."""
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", facts["port"]))
    time.sleep(0.05)
    return one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0 and one.getpeername() is not None


@technique("network", "MPTCP")
def mptcp(facts: Any) -> bool:
    """Connect with multipath TCP, which Landlock does not know."""
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(("127.0.0.1", facts["port"]))
    return True


@technique("network")
def fast_open(facts: Any) -> bool:
    """Connect by sending: TCP fast open."""
    one = socket.socket()
    one.sendto(b"fast_open", 0x20000000, ("127.0.0.1", facts["port"]))
    return True


@technique("network", "127.0.0.2:{other_port}")
def other_loopback_address(facts: Any) -> bool:
    """Connect to another address of the loopback interface."""
    socket.create_connection(("127.0.0.2", facts["other_port"]), 2)
    return True


@technique("network", "127.0.0.3:{proxy_port}")
def proxy_port_elsewhere(facts: Any) -> bool:
    """Connect to the proxy's port on another address."""
    one = socket.create_connection(("127.0.0.3", facts["proxy_port"]), 2)
    return one.recv(10) == b"outside"


@technique("network", "0.0.0.0:{port}")
def unspecified_address(facts: Any) -> bool:
    """Connect to 0.0.0.0, which means this machine."""
    one = socket.socket()
    one.settimeout(2)
    one.connect(("0.0.0.0", facts["port"]))
    return True


@technique("network", "127.0.0.1:{port}")
def mapped_address(facts: Any) -> bool:
    """Connect to an IPv4 address in an IPv6 socket."""
    one = socket.socket(socket.AF_INET6)
    one.connect(("::ffff:127.0.0.1", facts["port"]))
    return True


@technique("network", "127.0.0.1:{port}")
def curl(facts: Any) -> bool:
    """Ask with curl."""
    if shutil.which("curl") is None:
        raise Missing("curl is not installed")
    command = ["curl", "-sS", "-m", "2", "--noproxy", "*", f"http://127.0.0.1:{facts['port']}/"]
    return subprocess.run(command, capture_output=True, check=False).returncode != 7  # it could not connect


@technique("network", "127.0.0.1:{port}")
def bash_dev_tcp(facts: Any) -> bool:
    """Connect with a redirection of bash."""
    return program("bash", "-c", f"echo hi > /dev/tcp/127.0.0.1/{facts['port']}")


@technique("network", "127.0.0.1:{port}")
def bare_python(facts: Any) -> bool:
    """Connect in a Python without environment, site and user packages."""
    code = f"import socket; socket.create_connection(('127.0.0.1', {facts['port']}), 2)"
    return program(sys.executable, "-E", "-S", "-I", "-c", code)


@technique("network", "127.0.0.1:{port}")
def node(facts: Any) -> bool:
    """Connect in Node."""
    code = f"require('net').connect({facts['port']},'127.0.0.1',()=>process.exit(0)).on('error',()=>process.exit(1))"
    return program("node", "-e", code)


@technique("network", "127.0.0.1:{port}")
def static_binary(facts: Any) -> bool:
    """Connect in a static binary, which no library can be put under."""
    source = """#include <sys/socket.h>
    #include <netinet/in.h>
    int main(int n, char **v) { struct sockaddr_in a = {AF_INET, htons(%d), {htonl(0x7f000001)}};
      return connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&a, sizeof a) ? 1 : 0; }""" % facts["port"]  # noqa: UP031
    return subprocess.run([compiled(source, "-static")], check=False).returncode == 0


@technique("network", "127.0.0.1:{port}")
def preloaded_library(facts: Any) -> bool:
    """Connect in a library that is loaded before all others."""
    source = """#include <sys/socket.h>
    #include <netinet/in.h>
    #include <unistd.h>
    __attribute__((constructor)) void go(void) { struct sockaddr_in a = {AF_INET, htons(%d), {htonl(0x7f000001)}};
      _exit(connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&a, sizeof a) ? 1 : 0); }""" % facts["port"]  # noqa: UP031
    library = compiled(source, "-shared", "-fPIC")
    return subprocess.run(["/bin/true"], env={"LD_PRELOAD": library}, check=False).returncode == 0


@technique("network", "127.0.0.1:{port}")
def program_in_memory(facts: Any) -> bool:
    """Execute a program that has no file."""
    number = os.memfd_create("x", 0)
    os.write(number, Path(shutil.which("bash") or "/bin/sh").read_bytes())
    pid = os.fork()
    if pid == 0:
        try:
            os.execve(number, ["bash", "-c", f"echo hi > /dev/tcp/127.0.0.1/{facts['port']}"], {})
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


@technique("network", "127.0.0.1:{port}")
def from_a_thread(facts: Any) -> bool:
    """Connect in a thread of a daemon that has left the session."""
    if os.fork():
        return os.wait()[1] == 0
    os.setsid()
    results: list[int] = []

    def go() -> None:
        with socket.socket() as one:
            results.append(one.connect_ex(("127.0.0.1", facts["port"])))

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    os._exit(1 if results[0] else 0)


@technique("network", "127.0.0.1:{udp_port}")
def udp(facts: Any) -> None:
    """Send a datagram."""
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"udp", ("127.0.0.1", facts["udp_port"]))


@technique("network", "127.0.0.1:{udp_port}")
def udp_connected(facts: Any) -> None:
    """Send a datagram through a connected socket."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.connect(("127.0.0.1", facts["udp_port"]))
    one.send(b"udp_connected")


@technique("network", "127.0.0.1:{udp_port}")
def udp_message(facts: Any) -> None:
    """Send a datagram whose receiver stands in memory."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.sendmsg([b"udp_message"], [], 0, ("127.0.0.1", facts["udp_port"]))


@technique("network", "127.0.0.1:{udp_port}")
def udp_messages(facts: Any) -> None:
    """Send several datagrams at once."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    data = ctypes.create_string_buffer(b"udp_messages")
    name = ctypes.create_string_buffer(address("127.0.0.1", facts["udp_port"]), 16)
    vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(data), 12))
    message = struct.pack("QIxxxxQQQQIxxxx", ctypes.addressof(name), 16, ctypes.addressof(vector), 1, 0, 0, 0)
    buffer = ctypes.create_string_buffer(message + bytes(8))
    checked(libc.sendmmsg(one.fileno(), buffer, 1, 0))


@technique("network", ":53")
def name_server(facts: Any) -> bool:
    """Ask a name server far away."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.sendto(b"\0" * 12, ("198.51.100.9", 53))
    return True


@technique("network", "198.51.100.9:80")
def resolved_name(facts: Any) -> bool:
    """Resolve a name, and connect to what it stands for."""
    try:
        found = socket.getaddrinfo("replaykit-escape.example.com", 80)[0][4][0]
    except OSError:
        found = "198.51.100.9"
    socket.create_connection((found, 80), 2)
    return True


@technique("network", "{unix_path}")
def unix_socket(facts: Any) -> bool:
    """Connect to a unix socket by its path, as one would to Docker's."""
    socket.socket(socket.AF_UNIX).connect(facts["unix_path"])
    return True


@technique("network")
def unix_socket_through_link(facts: Any) -> bool:
    """Connect to a unix socket through a symbolic link."""
    link = Path(tempfile.mkdtemp(), "s")
    link.symlink_to(facts["unix_path"])
    socket.socket(socket.AF_UNIX).connect(str(link))
    return True


@technique("network")
def unix_socket_relative(facts: Any) -> bool:
    """Connect to a unix socket relative to its directory."""
    os.chdir(os.path.dirname(facts["unix_path"]))
    socket.socket(socket.AF_UNIX).connect(f"./{os.path.basename(facts['unix_path'])}")
    return True


@technique("network")
def unix_socket_hard_link(facts: Any) -> bool:
    """Connect to a unix socket through another name of its file."""
    other = facts["unix_path"] + ".link"
    os.link(facts["unix_path"], other)
    socket.socket(socket.AF_UNIX).connect(other)
    return True


@technique("network")
def unix_socket_race(facts: Any) -> bool:
    """Exchange the path in memory while somebody looks at it."""
    harmless, wanted = (struct.pack("H", 1) + path.encode() + b"\0" for path in ("/tmp/nothing", facts["unix_path"]))
    size = max(len(harmless), len(wanted))
    buffer = ctypes.create_string_buffer(harmless.ljust(size, b"\0"), size)
    over = threading.Event()

    def flip() -> None:
        while not over.is_set():
            ctypes.memmove(buffer, wanted.ljust(size, b"\0"), size)
            ctypes.memmove(buffer, harmless.ljust(size, b"\0"), size)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(60):
            number = checked(libc.socket(1, 1, 0))
            if libc.connect(number, buffer, size) == 0:
                return True
            os.close(number)
    finally:
        over.set()
        thread.join()
    return False


@technique("network", "@{abstract}")
def abstract_socket(facts: Any) -> bool:
    """Connect to a unix socket without a file."""
    socket.socket(socket.AF_UNIX).connect("\0" + facts["abstract"])
    return True


@technique("network", "{unix_datagram_path}")
def unix_datagram(facts: Any) -> None:
    """Send a datagram to a unix socket, as one would to the system's log."""
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"unix_datagram", facts["unix_datagram_path"])


@technique("network", "SOCK_RAW")
def raw_socket(facts: Any) -> bool:
    """Open a raw socket."""
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
    return True


@technique("network", "AF_PACKET")
def packet_socket(facts: Any) -> bool:
    """Open a packet socket."""
    socket.socket(17, socket.SOCK_RAW, 0)
    return True


@technique("network", "AF_NETLINK")
def kernel_events(facts: Any) -> bool:
    """Open a netlink socket other than that for routes."""
    socket.socket(16, socket.SOCK_RAW, 15)
    return True


@technique("network", "AF_VSOCK")
def virtual_machine_socket(facts: Any) -> bool:
    """Open a socket to the host of a virtual machine."""
    socket.socket(40, socket.SOCK_STREAM)
    return True


@technique("network", "AF_ALG")
def kernel_crypto(facts: Any) -> bool:
    """Open a socket into the kernel's cryptography."""
    socket.socket(38, socket.SOCK_SEQPACKET)
    return True


@technique("network", "AF_BLUETOOTH")
def bluetooth(facts: Any) -> bool:
    """Open a Bluetooth socket."""
    socket.socket(31, socket.SOCK_STREAM, 3)
    return True


@technique("system")
def io_uring(facts: Any) -> bool:
    """Make system calls through a ring that no filter sees."""
    checked(libc.syscall(425, 4, ctypes.create_string_buffer(120)))
    return True


@technique("system")
def old_system_calls(facts: Any) -> bool:
    """Make a system call of the 32-bit architecture, which has other numbers."""
    if not X86:
        raise Missing("only on x86_64")
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    return function() > 0


@technique("system")
def x32_system_calls(facts: Any) -> bool:
    """Make a system call with the numbers of x32."""
    if not X86:
        raise Missing("only on x86_64")
    return libc.syscall(ctypes.c_long(0x40000000 + 39)) > 0


@technique("system")
def inherited_descriptors(facts: Any) -> bool:
    """Use a descriptor that was left open."""
    for name in os.listdir("/proc/self/fd"):
        target = os.readlink(f"/proc/self/fd/{name}") if os.path.lexists(f"/proc/self/fd/{name}") else ""
        if target.startswith(("socket:", "anon_inode:", "/memfd:")) and "eventpoll" not in target:
            return True
        if os.path.isdir(f"/proc/self/fd/{name}") and target not in ("", f"/proc/{os.getpid()}/fd"):
            return True
    return False


# Files: each acts on its victim


@technique("files", "{victim}")
def write_file(facts: Any) -> None:
    """Write a file outside of the project."""
    Path(facts["victim"]).write_text("escaped")


@technique("files", "{victim}")
def append_to_file(facts: Any) -> None:
    """Append to a file."""
    with open(facts["victim"], "a") as file:
        file.write("escaped")


@technique("files", "{victim}")
def truncate_file(facts: Any) -> None:
    """Truncate a file by its path."""
    os.truncate(facts["victim"], 0)


@technique("files", "{victim}")
def rename_file(facts: Any) -> None:
    """Rename a file."""
    os.rename(facts["victim"], facts["victim"] + ".renamed")


@technique("files", "{victim}")
def exchange_file(facts: Any) -> None:
    """Put another file into the place of a file."""
    new = Path(tempfile.mkdtemp(dir=os.path.dirname(facts["victim"])), "new")
    new.write_text("escaped")
    os.replace(new, facts["victim"])


@technique("files", "{victim}")
def remove_file(facts: Any) -> None:
    """Remove a file."""
    os.unlink(facts["victim"])


@technique("files")
def hard_link(facts: Any) -> None:
    """Write to a file through another name of it."""
    link = Path(facts["victim"] + ".link")
    os.link(facts["victim"], link)
    link.write_text("escaped")


@technique("files", "{victim}")
def symbolic_link(facts: Any) -> None:
    """Write to a file through a symbolic link."""
    link = Path(tempfile.mkdtemp(), "link")
    link.symlink_to(facts["victim"])
    link.write_text("escaped")


@technique("files", "{victim}")
def change_mode(facts: Any) -> None:
    """Change the mode of a file."""
    os.chmod(facts["victim"], 0o777)


@technique("files", "{victim}")
def change_times(facts: Any) -> None:
    """Change the times of a file."""
    os.utime(facts["victim"], (1, 1))


@technique("files", "{victim}")
def change_attribute(facts: Any) -> None:
    """Set an extended attribute of a file."""
    os.setxattr(facts["victim"], "user.escaped", b"1")


@technique("files", "{victim}")
def sqlite_database(facts: Any) -> None:
    """Write to a SQLite database."""
    with sqlite3.connect(facts["victim"]) as database:
        database.execute("create table escaped (x)")


@technique("files", "{victim}")
def mapped_memory(facts: Any) -> None:
    """Write to a file through memory."""
    with open(facts["victim"], "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"!"
        memory.flush()


@technique("files", "{victim}")
def through_own_root(facts: Any) -> None:
    """Write to a file through /proc/self/root."""
    Path("/proc/self/root" + facts["victim"]).write_text("escaped")


@technique("files", "{victim}")
def through_open_directory(facts: Any) -> None:
    """Write to a file by its name in an open directory."""
    directory = os.open(os.path.dirname(facts["victim"]), os.O_RDONLY)
    number = os.open(os.path.basename(facts["victim"]), os.O_WRONLY | os.O_TRUNC, dir_fd=directory)
    os.write(number, b"escaped")


@technique("files", "{victim}")
def file_without_name(facts: Any) -> None:
    """Make a file without a name, and name it."""
    number = os.open(os.path.dirname(facts["victim"]), os.O_TMPFILE | os.O_WRONLY)
    os.write(number, b"escaped")
    os.unlink(facts["victim"])
    os.link(f"/proc/self/fd/{number}", facts["victim"], follow_symlinks=True)


@technique("files", "{victim}")
def copy_on_write(facts: Any) -> None:
    """Let the kernel copy into a file."""
    with tempfile.TemporaryFile() as source, open(facts["victim"], "r+b") as target:
        source.write(b"escaped")
        source.flush()
        os.copy_file_range(source.fileno(), target.fileno(), 7, 0, 0)


@technique("files", "{victim}")
def shell_redirection(facts: Any) -> bool:
    """Write to a file with a shell."""
    program("sh", "-c", f"echo escaped > '{facts['victim']}'")


@technique("files", "{project}/source.py")
def project_file(facts: Any) -> None:
    """Change a file of the project."""
    Path(facts["project"], "source.py").write_text("escaped")


@technique("files", "{home}/.bashrc")
def home_file(facts: Any) -> None:
    """Change a file of the home directory."""
    Path(facts["home"], ".bashrc").write_text("escaped")


@technique("files")
def shared_memory_file(facts: Any) -> None:
    """Change shared memory of the outside."""
    Path(facts["shared"]).write_text("escaped")


@technique("files")
def system_setting(facts: Any) -> bool:
    """Write a setting of the kernel."""
    place = Path("/proc/sys/vm/stat_interval")
    place.write_text(place.read_text())
    return True


@technique("system")
def magic_key(facts: Any) -> bool:
    """Ask the kernel for its emergency commands (only the list of them)."""
    place = Path("/proc/sysrq-trigger")
    if not place.exists():
        raise Missing("this kernel has none")
    with place.open("w") as file:
        file.write("h")
    return True


@technique("system")
def control_group(facts: Any) -> bool:
    """Make a control group."""
    os.mkdir("/sys/fs/cgroup/replaykit-escape")
    return True


@technique("system")
def raw_disk(facts: Any) -> bool:
    """Open the disk below the file system."""
    for name in ("vda", "sda", "nvme0n1", "mem", "kmsg"):
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"/dev/{name}", os.O_WRONLY))
            return True
    raise FileNotFoundError


@technique("system")
def own_device(facts: Any) -> bool:
    """Make a device, and open it."""
    path = f"{tempfile.mkdtemp()}/disk"
    os.mknod(path, 0o600 | 0o060000, os.makedev(254, 0))
    os.close(os.open(path, os.O_RDONLY))
    return True


@technique("system")
def file_handle(facts: Any) -> bool:
    """Open a file by its handle, without a path."""
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    checked(libc.name_to_handle_at(-100, facts["project"].encode(), handle, ctypes.byref(mount), 0))
    directory = os.open(facts["project"], os.O_RDONLY)
    checked(libc.open_by_handle_at(directory, handle, os.O_RDONLY))
    return True


# Mounts and namespaces


@technique("system")
def mount_something(facts: Any) -> bool:
    """Mount something."""
    checked(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
    return True


@technique("system")
def unmount_layer(facts: Any) -> bool:
    """Unmount a layer, to see what is below it."""
    checked(libc.umount2(b"/tmp", 2))
    return True


@technique("system")
def remount_writable(facts: Any) -> bool:
    """Make a read-only mount writable."""
    checked(libc.mount(None, b"/sys", None, 32 | 4096, None))
    return True


def as_other_root(*, more_namespaces: int = 0) -> None:
    """Become root of a user namespace of our own, which is allowed: everything is locked in there."""
    user, group = os.getuid(), os.getgid()
    checked(libc.unshare(0x10000000 | 0x00020000 | more_namespaces))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


@technique("system")
def unmount_in_own_namespace(facts: Any) -> bool:
    """Unmount a layer as root of a namespace of one's own."""
    as_other_root()
    checked(libc.umount2(b"/tmp", 2))
    return True


@technique("system")
def control_groups_in_own_namespace(facts: Any) -> bool:
    """Mount the machine's control groups as root of a namespace of one's own: they could be written there."""
    as_other_root(more_namespaces=0x02000000)
    checked(libc.mount(b"none", b"/tmp", b"cgroup2", 0, None))
    return True


@technique("system")
def control_groups_in_a_child(facts: Any) -> bool:
    """Start a process in a namespace for control groups; the flags stand in memory."""
    arguments = struct.pack("11Q", 0x10000000 | 0x02000000, 0, 0, 0, 17, *[0] * 6)
    pid = checked(libc.syscall(435, arguments, len(arguments)))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


@technique("system")
def remount_in_own_namespace(facts: Any) -> bool:
    """Make a read-only mount writable as root of a namespace of one's own."""
    as_other_root()
    checked(libc.mount(None, b"/sys", None, 32 | 4096, None))
    return True


@technique("system")
def uncover_in_own_namespace(facts: Any) -> bool:
    """Bind the root without what is mounted on it."""
    as_other_root()
    place = tempfile.mkdtemp()
    checked(libc.mount(b"/", place.encode(), None, 4096, None))
    return True


@technique("system")
def move_layer_in_own_namespace(facts: Any) -> bool:
    """Move a layer away, to see what is below it."""
    as_other_root()
    checked(libc.mount(None, b"/", None, 0x4000 | (1 << 18), None))
    place = tempfile.mkdtemp(dir="/var/tmp")
    checked(libc.mount(b"/tmp", place.encode(), None, 8192, None))
    return True


@technique("system")
def namespace_of_init(facts: Any) -> bool:
    """Enter the namespaces of the first process."""
    number = os.open("/proc/1/ns/net", os.O_RDONLY)
    if os.stat("/proc/1/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
        return False
    checked(libc.setns(number, 0))
    return True


@technique("system")
def namespace_of_caller(facts: Any) -> bool:
    """Enter the namespaces of the process that started this one."""
    checked(libc.setns(os.open(f"/proc/{facts['caller']}/ns/mnt", os.O_RDONLY), 0))
    return True


@technique("system")
def change_root(facts: Any) -> bool:
    """Leave the root by changing it."""
    os.chroot("/tmp")
    return True


# Other processes


def is_caller(facts: Any) -> bool:
    try:
        return facts["marker"] in Path(f"/proc/{facts['caller']}/cmdline").read_text()
    except OSError:
        return False


@technique("processes")
def kill_other(facts: Any) -> None:
    """Kill a process outside."""
    os.kill(facts["sleeper"], signal.SIGKILL)


@technique("processes")
def trace_other(facts: Any) -> bool:
    """Trace a process outside."""
    checked(libc.ptrace(16, facts["sleeper"], 0, 0))
    checked(libc.ptrace(17, facts["sleeper"], 0, 0))
    return True


@technique("processes")
def memory_of_other(facts: Any) -> bool:
    """Read the memory of a process outside."""
    with open(f"/proc/{facts['sleeper']}/maps") as lines:
        start = int(lines.readline().partition("-")[0], 16)
    number = os.open(f"/proc/{facts['sleeper']}/mem", os.O_RDWR)
    return bool(os.pread(number, 8, start))


@technique("processes")
def root_of_other(facts: Any) -> None:
    """Write through the root of a process outside."""
    Path(f"/proc/{facts['sleeper']}/root{facts['victim']}").write_text("escaped")


@technique("processes")
def root_of_first_process(facts: Any) -> None:
    """Write through the root of the first process."""
    Path(f"/proc/1/root{facts['victim']}").write_text("escaped")


@technique("processes")
def descriptors_of_other(facts: Any) -> bool:
    """Open a descriptor of a process outside."""
    return bool(os.open(f"/proc/{facts['sleeper']}/fd/0", os.O_RDONLY))


@technique("processes")
def handle_of_other(facts: Any) -> bool:
    """Take a descriptor from a process outside."""
    handle = os.pidfd_open(facts["sleeper"])
    checked(libc.syscall(438, handle, 0, 0))
    return True


@technique("processes")
def other_priority(facts: Any) -> bool:
    """Change the priority of a process outside."""
    os.setpriority(os.PRIO_PROCESS, facts["sleeper"], 7)
    return True


@technique("processes")
def outlive(facts: Any) -> None:
    """Stay behind as a daemon; the test looks for it when the tree has ended."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.alarm(0)
    os.execv("/bin/sleep", ["sleep", facts["daemon"]])


@technique("processes")
def typed_keys(facts: Any) -> bool:
    """Type into the terminal."""
    import fcntl

    _, slave = os.openpty()
    fcntl.ioctl(slave, 0x5412, b"x")
    return True


@technique("processes")
def keyring(facts: Any) -> bool:
    """Put a key into the user's keyring, which is shared with the outside."""
    number = 248 if X86 else 217
    checked(libc.syscall(number, b"user", b"replaykit-escape", b"x", 1, -4))
    return True


@technique("processes")
def system_v_memory(facts: Any) -> bool:
    """Attach System V shared memory of the outside."""
    checked(libc.shmget(facts["shm_key"], 0, 0))
    return True


@technique("processes")
def set_clock(facts: Any) -> bool:
    """Set the clock of the machine, to what it is."""
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))
    return True


def run_all(facts: dict[str, Any], names: list[str]) -> dict[str, str]:
    """Run techniques, each in a process of its own; return `through`, `stopped` or why one was left out."""
    results: dict[str, str] = {}
    for name in names:
        own = {**facts, "victim": facts["victims"].get(name, "")}
        source, sink = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(10)
            os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
            os.close(source)
            try:
                answer = "through" if TECHNIQUES[name].act(own) else "stopped"
            except Missing as error:
                answer = f"left out: {error}"
            except BaseException as error:
                answer = f"stopped: {type(error).__name__} {error}"
            os.write(sink, answer.encode())
            os._exit(0)
        os.close(sink)
        if name == "outlive":
            os.waitpid(pid, 0)
            results[name] = "stopped"
        else:
            with os.fdopen(source, "rb") as answer_file:
                text = answer_file.read().decode()
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            results[name] = text or f"stopped: ended with {status}"
            continue
        os.close(source)
    return results


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps(run_all(given, given["names"])))
