job "web" {
  group "app" {
    volume "data" {
      type = "nfs"
    }
    volume "data" {
      type   = "host"
      source = "x"
    }
    task "server" {
      driver = "container"
      volume_mount {
        volume      = "dta"
        destination = "/data"
      }
      volume_mount {
        volume           = "data"
        propagation_mode = "public"
      }
    }
  }
}
