"""An index on three hosts that share nothing but a network: ``make hosts``, which takes minutes and needs root."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import mihash
from hosts import Network, why_not

pytestmark = pytest.mark.hosts

TESTS = Path(__file__).parents[1]
PORT = 6379
STEP_S = 180
ENVIRONMENT = os.environ | {
    "PYTHONPATH": f"{Path(mihash.__file__).parents[1]}:{TESTS}",
    "RAY_AUTH_MODE": "disabled",  # otherwise a token file in the home folder decides
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ADDRESS": "",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class RayHosts:
    """Three hosts with a node of a Ray cluster each; host 1 has the head."""

    def __init__(self, folder):
        self.network = Network(folder)
        try:
            for number in (1, 2, 3):
                self.network.start(number)
            self.head()
            self.join(2, 3)
        except BaseException:
            self.network.end()
            raise

    def run(self, number, *words):
        return self.network.hosts[number].run(sys.executable, "-m", *words, env=ENVIRONMENT)

    def _start(self, number, *words):
        own = f"--node-ip-address={self.network.hosts[number].address}"
        size = ("--num-cpus=1", f"--object-store-memory={80 << 20}")
        self.run(number, "ray.scripts.scripts", "start", *words, own, *size, "--disable-usage-stats")

    def head(self):
        """Start the head."""
        self._start(1, "--head", f"--port={PORT}", "--include-dashboard=false")

    def join(self, *numbers):
        """Have hosts join the head's cluster, all at once."""
        with ThreadPoolExecutor() as threads:
            address = f"--address={self.network.hosts[1].address}:{PORT}"
            for joined in [threads.submit(self._start, number, address) for number in numbers]:
                joined.result()

    def stop(self, number):
        """Stop what runs of Ray on a host."""
        self.run(number, "ray.scripts.scripts", "stop", "--force")


class Worker:
    """A process on the head's host that keeps two indexes of the same rows (host_work.py)."""

    def __init__(self, hosts, folder):
        command = hosts.network.hosts[1].command(sys.executable, TESTS / "host_work.py", folder)
        self._process = subprocess.Popen(
            command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, name, *arguments, **options):
        """Have it take a step; return what that returned, or raise its error."""
        self._process.stdin.write(json.dumps([name, arguments, options]) + "\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], STEP_S)[0], f"{name} takes more than {STEP_S} s"
        answer = json.loads(self._process.stdout.readline() or '{"error": "the process has ended"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["returned"]

    def end(self):
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    links = subprocess.check_output(["ip", "link"])
    made = RayHosts(tmp_path_factory.mktemp("disks"))
    pids = [host.pid for host in made.network.hosts.values()]
    yield made
    made.network.end()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert subprocess.check_output(["ip", "link"]) == links


@pytest.fixture
def worker(hosts):
    """Yield a process with two filled indexes, one with a shard on each host."""
    folder = "/tmp/work"
    made = Worker(hosts, folder)
    try:
        made.do("create", shards=3, nodes={host.address: "/tmp/rows" for host in hosts.network.hosts.values()})
        made.do("add", 0, 300)
        made.do("add", 300, 600)
        yield made
    finally:
        made.end()
        for host in hosts.network.hosts.values():
            for name in ("work", "rows"):
                shutil.rmtree(host.disk / name, ignore_errors=True)


KILLED = """
import os, signal, sys
from hosts import Network

network = Network(sys.argv[1])
print(network.start(1).pid, network.start(2).pid, network.switch.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_hosts_end_with_the_process_that_made_them(tmp_path):
    links = subprocess.check_output(["ip", "link"])
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    until = time.monotonic() + 30
    while left := [pid for pid in done.stdout.split() if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < until, left
        time.sleep(0.05)
    assert subprocess.check_output(["ip", "link"]) == links


def same(worker):
    """Tell whether the index on Ray has decided what the one in a file has, and answers as that does."""
    many, one = worker.do("told")
    assert many == one
    return len(many[1][0][0]) == 20  # it has answered


def files(hosts, pattern):
    """Return which files of a pattern are on the disk of each host."""
    return {
        number: sorted(str(path.relative_to(host.disk)) for path in host.disk.glob(pattern))
        for number, host in hosts.network.hosts.items()
    }


def test_an_index_on_three_hosts_answers_as_one_in_a_file(hosts, worker):
    assert same(worker)
    worker.do("change", 0)
    assert same(worker)
    assert [place[:3] for place in worker.do("shards")] == [
        [f"10.99.0.{number}", f"/tmp/rows/shard-{number - 1}", "up"] for number in (1, 2, 3)
    ]
    assert files(hosts, "rows/*/index.db") == {n: [f"rows/shard-{n - 1}/index.db"] for n in (1, 2, 3)}
    worker.do("backup", "/tmp/work/copy")
    assert files(hosts, "work/copy/shards/*/index.db") == {
        n: [f"work/copy/shards/{n - 1}/index.db"] for n in (1, 2, 3)
    }
    stats = json.loads(hosts.run(1, "mihash", "stats", "/tmp/work/many", "--ray", "auto", "--json"))
    assert [sum(shard["items"] for shard in stats["shards"]), stats["items"]] == [580, 580]
    worker.do("close")


def test_each_host_encodes_the_files_that_only_it_has(hosts, worker):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    table = pa.table({"vector": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)})
    for number, host in hosts.network.hosts.items():
        (host.disk / "rows" / "given").mkdir(parents=True)
        parquet.write_table(table, host.disk / "rows" / "given" / f"part-{number}.parquet")
    hosts.run(1, "mihash", "encode", "/tmp/work/many", "/tmp/rows/given", "/tmp/rows/codes", "--ray", "auto")
    assert files(hosts, "rows/codes/*") == {n: [f"rows/codes/part-{n}.parquet"] for n in (1, 2, 3)}
    worker.do("close")


def test_a_lost_host_is_missed_by_name_and_comes_back_with_its_disk(hosts, worker):
    worker.do("change", 0)
    hosts.network.lose(3)
    silent = (
        r"PartialFailure: 1 of the shards cannot be reached: shard 2 on 10\.99\.0\.3 \(it was silent for \d+ s\)"
    )
    with pytest.raises(RuntimeError, match=silent):
        worker.do("search")
    with pytest.raises(RuntimeError, match=silent):
        worker.do("upsert", 40)
    worker.do("add", 600, 620)
    (*_, first, _), (*_, second, _), (*_, third, lag) = worker.do("shards")
    assert [first, second, third] == ["up", "up", "lost"]
    assert lag >= 1  # the new rows, and the last version if the host was lost before it had that
    worker.do("close")
    worker.do("open", allow_partial=True)
    assert worker.do("search")["missing"] == [2]
    with pytest.raises(RuntimeError, match="PartialFailure"):
        worker.do("add", 620, 640)
    hosts.network.start(3)
    hosts.join(3)
    print("the shard of the lost host is back after", worker.do("wait_for_shards"), "s")
    assert worker.do("search")["missing"] == []
    worker.do("add", 620, 640)
    worker.do("change", 40)
    assert same(worker)
    assert worker.do("verify") == 600
    worker.do("close")


def test_a_link_that_is_down_for_a_while_loses_nothing(hosts, worker):
    hosts.network.unplug(2)
    with pytest.raises(RuntimeError, match=r"PartialFailure: .* shard 1 on 10\.99\.0\.2"):
        worker.do("search")
    worker.do("add", 600, 620)
    hosts.network.plug(2)
    print("the shard of the unplugged host is back after", worker.do("wait_for_shards"), "s")
    worker.do("change", 0)
    assert same(worker)
    worker.do("close")


def test_the_host_of_head_and_coordinator_is_lost_and_what_it_acknowledged_is_there(hosts, worker):
    worker.do("change", 0)
    before = worker.do("told")
    hosts.network.lose(1)
    with pytest.raises((RuntimeError, BrokenPipeError)):
        worker.do("search")
    hosts.network.start(1)
    hosts.head()
    for number in (2, 3):
        hosts.stop(number)
    hosts.join(2, 3)
    again = Worker(hosts, "/tmp/work")
    try:
        again.do("open")
        assert again.do("told") == before
        again.do("change", 40)
        assert same(again)
        again.do("close")
    finally:
        again.end()
