# A service on the bare host: two processes that say hello every second.
#
#   berth job run examples/hello.nomad.hcl
#   berth alloc logs -f ALLOC
job "hello" {
  group "greeters" {
    count = 2

    # Healthy once it has run for so long; 10s is the default.
    update {
      min_healthy_time = "1s"
    }

    task "greet" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo \"hello from $NOMAD_ALLOC_NAME\"; sleep 1; done"]
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
