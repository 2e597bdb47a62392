"""What python-nomad's own tests ask of their surroundings, which its source distribution leaves out: a client for each test."""

import nomad
import pytest

import tests.common as common


def client(**more):
    return nomad.Nomad(host=common.IP, port=common.NOMAD_PORT, token=common.NOMAD_TOKEN, verify=False, **more)


@pytest.fixture
def nomad_setup():
    return client()


@pytest.fixture
def nomad_setup_with_namespace():
    return client(namespace=common.NOMAD_NAMESPACE)
