"""What every test stands on: the installed package, one hypothesis profile, a header with the backend."""

import json
import os
import signal
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from hypothesis import settings

import privmw
from kernels.cases import TRIED, load

settings.register_profile("privmw", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("privmw")
# mbi warns of jax's defaults when it is imported.
os.environ |= {"JAX_ENABLE_X64": "1", "JAX_ENABLE_COMPILATION_CACHE": "0"}


def pytest_configure(config):
    # Tests send these to processes of their own, which would inherit that a suite in the background
    # ignores them.
    for name in ("SIGINT", "SIGHUP"):
        if getattr(signal, name, None) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        origin = distribution("privmw").read_text("direct_url.json")
    except PackageNotFoundError:
        raise pytest.UsageError("privmw must be installed to be tested: pip install '.[test]'") from None
    editable = origin is not None and json.loads(origin).get("dir_info", {}).get("editable", False)
    source = Path(__file__).parents[1] / "privmw"
    if Path(privmw.__file__).parent == source and not editable:
        raise pytest.UsageError(
            "privmw must be imported as installed, not from the source tree: run pytest, not python -m pytest"
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """No workers where files alone are named: few tests end sooner without them, and -s works."""
    return 0 if all(".py" in argument for argument in config.args) else None


def pytest_report_header(config):
    return f"privmw {privmw.__version__}, {privmw.kernels.backend()} kernels"


@pytest.fixture(autouse=True)
def _threads_stay():
    """No test leaves another number of threads to the tests after it."""
    before = privmw.kernels.threads()
    yield
    after = privmw.kernels.threads()
    privmw.kernels.set_threads(before)
    assert after == before


@pytest.fixture(params=TRIED)
def backend(request):
    """The kernels of each backend in turn; only the forced one where one is forced."""
    return load(request.param) or pytest.skip(f"{request.param} is not installed")
