"""Options and fixtures of the CUDA tests: the device under test, subsets of cases, concurrent cases.

Environment, as CMake and test_cuda.sh set it:
  CARNOT              the binary
  CARNOT_CUDA_DRIVER  the stand-in driver; unset: the driver of a real GPU
  CARNOT_CUDA_MODULE  libcarnot_cuda.so
  CARNOT_CUDA_TACTICS    restricts the CUDA tactics ("copies": none but copies); some tests add cases without it
"""

import concurrent.futures
import inspect
import os
from typing import Optional

import pytest
from harness import Device

FUTURE = pytest.StashKey[concurrent.futures.Future]()
DEVICE = pytest.StashKey[Device]()
POOL = pytest.StashKey[concurrent.futures.ThreadPoolExecutor]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cuda")
    group.addoption("--device", choices=("stand-in", "gpu"), help="default: stand-in where CARNOT_CUDA_DRIVER is set")
    group.addoption(
        "--only", action="append", default=[], metavar="A|B", help="cases whose name contains A or B; all given"
    )
    group.addoption("--untimed", action="store_true", help="take the first fitting tactic, for sanitizers")
    group.addoption("--wrapper", default="", metavar="COMMAND", help="put before the binary, as compute-sanitizer")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "concurrent: cases run on a thread pool; a case returns its line of report")
    asked = config.getoption("--device")
    if asked == "gpu":
        os.environ.pop("CARNOT_CUDA_DRIVER", None)  # before test modules read it to choose their cases
    elif asked == "stand-in" and "CARNOT_CUDA_DRIVER" not in os.environ:
        raise pytest.UsageError("--device=stand-in: CARNOT_CUDA_DRIVER does not name the stand-in driver")
    config.stash[DEVICE] = Device(config.getoption("--wrapper"), config.getoption("--untimed"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    words = config.getoption("--only")
    left_out = [item for item in items if not all(any(part in item.name for part in word.split("|")) for word in words)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Starts all concurrent cases. A process per case keeps the threads waiting, not computing."""
    if session.config.option.collectonly or "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cases already
        return
    device = session.config.stash[DEVICE]
    pool = session.config.stash[POOL] = concurrent.futures.ThreadPoolExecutor(max(8, os.cpu_count() or 1))
    if device.why_absent():
        return
    for item in session.items:
        if item.get_closest_marker("concurrent"):
            given = {"device": device, **item.callspec.params} if hasattr(item, "callspec") else {"device": device}
            known = inspect.signature(item.function).parameters
            item.stash[FUTURE] = pool.submit(item.function, **{k: v for k, v in given.items() if k in known})


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Optional[bool]:
    future = pyfuncitem.stash.get(FUTURE, None)
    if future is None:
        return None
    print(future.result() or "")
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    pool = session.config.stash.get(POOL, None)
    if pool is not None:
        pool.shutdown(wait=True, cancel_futures=True)


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """The device under test: the stand-in driver or a GPU."""
    found = request.config.stash[DEVICE]
    reason = found.why_absent()
    if reason:
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def stand_in(device: Device) -> Device:
    """The stand-in driver, whose times and libraries a test dictates."""
    if not device.is_stand_in:
        pytest.skip("needs the stand-in driver")
    return device
