job "nightly" {
  type = "batch"

  periodic {
    crons = ["0 3 * * *"]
  }

  group "g" {
    task "t" {
      driver = "raw_exec"

      config {
        command = "/bin/true"
      }
    }
  }
}
