job "web" {
  vault {
    polices = ["x"]
  }
  task "server" {
    driver = "container"
    secret "db" {
      provider = ["vault"]
    }
    action "flush" {
      args = "all"
    }
    schedule {
      cron = "0 8 * * *"
    }
    csi_plugin {
      health_timeout = "soon"
    }
    consul "x" {}
  }
}
