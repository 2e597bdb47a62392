# A service in a container, on a port that the scheduler picks.
#
#   berth job run FILE
#   berth job status example-container
job "example-container" {
  group "web" {
    count = 1

    # A new version takes the place of one allocation at a time, and of the next one when that has been healthy for so long.
    update {
      max_parallel     = 1
      min_healthy_time = "2s"
    }

    # The port's number is in the environment as NOMAD_PORT_http, address and all as NOMAD_ADDR_http.
    network {
      port "http" {}
    }

    task "server" {
      driver = "container"

      config {
        # A directory on the node that holds a root file system.
        image   = "/srv/images/busybox"
        command = "/bin/sh"
        args    = ["-c", "exec httpd -f -v -p $NOMAD_ADDR_http -h /www"]
        ports   = ["http"]
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
