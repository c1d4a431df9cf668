"""Hosts of a network, as far as one machine can play them: namespaces of Linux.

A host has an address, processes, a name, a ``/tmp`` and a ``/dev/shm`` of its own. What is installed on this
machine is installed on every host. The switch that joins the hosts is a namespace too, so the network of this
machine is not touched. A host ends with its first process, and that one with the process that made it: nothing is
left, even of a test that was killed.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

_KINDS = ("--net", "--mount", "--pid", "--uts", "--ipc")
_TOOLS = ("unshare", "nsenter", "mount", "hostname", "ip")
_TRIAL = """
set -e
ip link add switch type bridge
ip link add port type veth peer eth0
mount -t tmpfs shm /dev/shm
env --ignore-signal=CHLD true
"""
_SEEN = (Path(__file__).parents[1], Path(sys.prefix), Path(sys.base_prefix))  # by every host, also where in /tmp
_FIRST_PROCESS = """
set -e
name=$1 disk=$2; shift 2
hostname "$name"
ip link set lo up
mount -t tmpfs shm /dev/shm
for path; do mkdir -p "$disk/${path#/tmp/}"; mount --bind "$path" "$disk/${path#/tmp/}"; done
mount --rbind "$disk" /tmp
read -r pid _ < /proc/self/stat
mount -t proc proc /proc
echo "$pid"
exec env --ignore-signal=CHLD cat
"""


def why_not():
    """Return why this machine cannot play hosts; None where it can."""
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"hosts are played with {', '.join(missing)}, which this machine lacks"
    if os.geteuid() != 0:
        return "hosts are played with namespaces, which need root"
    trial = ["unshare", *_KINDS, "--fork", "sh", "-c", _TRIAL]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"namespaces cannot be made here: {done.stderr.strip():.200}"


class Host:
    """A first process in namespaces of its own, and what is run beside it.

    Parameters
    ----------
    name, address
        What it is called, and its address in the network.
    disk
        The folder of this machine that it sees as ``/tmp``.
    """

    def __init__(self, name, address, disk):
        self.name, self.address, self.disk = name, address, disk
        seen = [str(path) for path in _SEEN if path.is_relative_to("/tmp")]
        self._first = subprocess.Popen(
            ["unshare", *_KINDS, "--fork", "sh", "-c", _FIRST_PROCESS, "sh", name, str(disk), *seen],
            stdin=subprocess.PIPE,  # when it is closed, `cat` ends, and with it every process of the host
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self._first.stdout.readline()
        assert line, self._first.communicate()[1]
        self.pid = int(line)

    def command(self, *words):
        """Return a command that runs on the host."""
        return ["nsenter", "--target", str(self.pid), *_KINDS, *map(str, words)]

    def run(self, *words, **options):
        """Run a command to its end; return what it printed."""
        return _run(self.name, self.command(*words), **options)

    def end(self):
        """Kill every process at once."""
        os.kill(self.pid, signal.SIGKILL)
        self._first.communicate()


class Network:
    """Hosts that are joined by a switch.

    Parameters
    ----------
    folder
        Where the disks of the hosts are kept. A disk outlives its host.

    Attributes
    ----------
    hosts
        Those that run, by number.
    switch
        The first process of the switch.
    """

    def __init__(self, folder):
        self._folder, self.hosts = Path(folder), {}
        made = ["unshare", "--net", "sh", "-c", "echo made && exec cat"]
        self.switch = subprocess.Popen(made, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert self.switch.stdout.readline(), (
                "the switch could not be made"
            )  # before, this machine's is entered
            self._link("add", "switch", "type", "bridge")
            self._link("set", "switch", "up")
        except BaseException:
            self.end()
            raise

    def _link(self, *words):
        enter = ["nsenter", "--target", str(self.switch.pid), "--net"]
        _run("the switch", [*enter, "ip", "link", *map(str, words)])

    def start(self, number):
        """Start a host, with the disk that it had, and plug it in."""
        name, address = f"host-{number}", f"10.99.0.{number}"
        disk = self._folder / name
        disk.mkdir(exist_ok=True)
        host = self.hosts[number] = Host(name, address, disk)
        card = ("eth0", "address", f"02:00:00:00:00:{number:02}")  # the same after a restart, as of a machine
        self._link("add", f"port{number}", "type", "veth", "peer", *card, "netns", host.pid)
        self._link("set", f"port{number}", "master", "switch", "up")
        host.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        return host

    def unplug(self, number):
        """Take the link of a host down: what it sends is lost, and nothing reaches it."""
        self._link("set", f"port{number}", "down")

    def plug(self, number):
        """Bring the link of a host up again."""
        self._link("set", f"port{number}", "up")

    def lose(self, number):
        """Let a host die as machines do: no other host is told, not even by a connection that closes."""
        self.unplug(number)
        self.hosts.pop(number).end()
        self._link("delete", f"port{number}")

    def end(self):
        """End all hosts and the switch."""
        for host in self.hosts.values():
            host.end()
        self.switch.communicate()


def _run(name, command, env=None, timeout=180):
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"on {name}: {' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
