# A batch job: it computes, prints and is done.
#
#   berth job run examples/pi.nomad.hcl
#   berth alloc logs ALLOC
job "pi" {
  type = "batch"

  group "sum" {
    task "leibniz" {
      driver = "raw_exec"

      config {
        command = "/usr/bin/awk"
        args    = ["BEGIN { for (i = 0; i < 1000000; i++) sum += (i % 2 ? -4 : 4) / (2 * i + 1); printf \"pi is about %.4f\\n\", sum }"]
      }

      resources {
        cpu    = 100
        memory = 16
      }
    }
  }
}
