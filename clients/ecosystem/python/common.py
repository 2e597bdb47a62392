"""Where the tests find the server; the first of them makes the token that the others show."""

import os
from urllib.parse import urlsplit

_ADDRESS = urlsplit(os.environ["NOMAD_ADDR"])

IP = _ADDRESS.hostname
NOMAD_PORT = _ADDRESS.port
NOMAD_NAMESPACE = "admin"
NOMAD_TOKEN = None
