job "web" {
  group "app" {
    count = 9
    scaling {
      min = 2
      max = 5
    }
    task "server" {
      driver = "container"
      scaling "disk" {
        min = 5
        max = 1
      }
      identity {
        change_mode = "signal"
      }
      identity {}
    }
  }
}
