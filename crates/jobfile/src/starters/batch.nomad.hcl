# A batch job: a process that runs until it is done. One that fails is tried again.
#
#   berth job run FILE
#   berth job status example-batch
job "example-batch" {
  type = "batch"

  group "work" {
    # So many at the same time; each knows its number as NOMAD_ALLOC_INDEX.
    count = 2

    restart {
      attempts = 3
      interval = "24h"
      delay    = "15s"
      mode     = "fail"
    }

    task "step" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"part $NOMAD_ALLOC_INDEX\"; sleep 1; echo done"]
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
