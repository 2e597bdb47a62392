job "web" {
  spread {
    weight = 0
  }
  spread {
    attribute = "${node.datacenter}"
    target "dc1" {
      percent = 70
    }
    target "dc2" {
      percent = 40
    }
    target "dc1" {
      percent = 0
    }
    target "" {}
  }
  task "server" {
    driver = "container"
  }
}
