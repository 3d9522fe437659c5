"""Two processes for all tests of this folder."""

import pytest
from ranks import Ranks


@pytest.fixture(scope="session")
def ranks():
    ranks = Ranks()
    yield ranks
    ranks.stop()
