# A container that serves a page, on a port that the scheduler picks.
#
# The image is a directory on the node, below one of the agent's --image-dirs. `scripts/demo` makes this one
# from a busybox that is linked statically.
job "web" {
  group "front" {
    update {
      min_healthy_time = "1s"
    }

    network {
      port "http" {}
    }

    task "httpd" {
      driver = "container"

      # The first process of a container takes no SIGTERM that it does not ask for; httpd does not.
      kill_timeout = "500ms"

      config {
        image   = "/srv/images/busybox"
        command = "/bin/sh"
        args    = ["-c", "echo \"serving at $NOMAD_ADDR_http\"; exec httpd -f -v -p $NOMAD_PORT_http -h /www"]
        ports   = ["http"]
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
