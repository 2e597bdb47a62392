job "web" {
  constraint {
    value = "linux"
  }
  constraint {
    attribute = "${attr.kernel.name}"
  }
  constraint {
    attribute = "${attr.kernel.name}"
    operator  = "regex"
    value     = "linux"
  }
  constraint {
    attribute = "${attr.kernel.name}"
    regexp    = "(linux"
  }
  constraint {
    attribute = "${attr.kernel.version}"
    version   = "newest"
  }
  constraint {
    attribute = "${attr.kernel.version}"
    semver    = "~> 1.2"
  }
  constraint {
    distinct_property = "${meta.rack}"
    value             = "some"
  }
  constraint {
    attribute = "${meta.rack}"
    version   = "> 1"
    regexp    = "x"
  }
  constraint {
    attribute      = "${meta.rack}"
    operator       = "="
    distinct_hosts = true
  }
  task "server" {
    driver = "container"
  }
}
