job "web" {
  affinity {
    attribute = "${node.class}"
    operator  = "distinct_hosts"
  }
  affinity {
    attribute = "${node.class}"
    value     = "fast"
    weight    = 0
  }
  affinity {
    attribute = "${node.class}"
    value     = "fast"
    weight    = 101
  }
  affinity {
    value = "fast"
  }
  affinity {
    attribute = "${node.class}"
    version   = "newest"
  }
  task "server" {
    driver = "container"
  }
}
