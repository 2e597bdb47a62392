# A service: a process that runs until it is stopped, and is started again when it ends.
#
#   berth job run FILE
#   berth job status example
job "example" {
  # Where it may run: names of datacenters, or patterns.
  datacenters = ["*"]

  # A group runs on one node. There are as many of it as `count` says.
  group "app" {
    count = 1

    # A new version takes the place of one allocation at a time, and of the next one when that has been healthy for so long.
    update {
      max_parallel     = 1
      min_healthy_time = "2s"
    }

    # When a task ends, it is started again on its node, up to so many times in a while.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    task "server" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo \"hello from $NOMAD_ALLOC_NAME\"; sleep 5; done"]
      }

      # Variables of its environment; `${...}` is replaced on the node.
      env {
        NODE = "${node.unique.name}"
      }

      # What it needs: MHz, and MiB.
      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
