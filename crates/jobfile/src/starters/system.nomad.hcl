# A system job: one process on every node that meets its constraints, also on nodes that join later.
#
#   berth job run FILE
#   berth job status example-system
job "example-system" {
  type = "system"

  # Only on nodes like these.
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  group "agent" {
    task "watch" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do cat /proc/loadavg; sleep 10; done"]
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
