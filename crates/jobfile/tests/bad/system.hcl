job "agent" {
  type = "system"
  spread {
    attribute = "${node.datacenter}"
  }
  group "app" {
    count = 2
    reschedule {
      attempts = 1
      interval = "1h"
    }
    task "server" {
      driver = "container"
    }
  }
}
