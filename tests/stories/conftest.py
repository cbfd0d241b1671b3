"""Fixtures of the stories."""

import pytest

from story import Messages


@pytest.fixture
def logger():
    return Messages()
