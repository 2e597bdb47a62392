job "picky" {
  constraint {
    attribute = "${attr.nomad.version}"
    version   = ">= 1.2, < 3"
  }
  constraint {
    attribute = "${attr.app.version}"
    semver    = "> 0.1.0-beta"
  }
  constraint {
    attribute = "${attr.kernel.name}"
    regexp    = "^(linux|darwin)$"
  }
  constraint {
    attribute    = "${meta.features}"
    set_contains = "ssd,gpu"
  }
  constraint {
    attribute        = "${meta.features}"
    set_contains_any = "ssd,gpu"
  }
  constraint {
    attribute = "${meta.rack}"
    operator  = "is_set"
  }
  constraint {
    attribute  = "${meta.old}"
    is_not_set = true
  }
  constraint {
    distinct_property = "${meta.rack}"
    value             = "2"
  }
  constraint {
    distinct_hosts = false
  }
  constraint {
    operator = "distinct_hosts"
    value    = "true"
  }
  constraint {
    attribute = "${attr.memory.totalbytes}"
    operator  = ">"
    value     = 1000000
  }
  task "t" {
    driver = "container"
  }
}
