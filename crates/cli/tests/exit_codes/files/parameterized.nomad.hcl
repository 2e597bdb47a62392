job "parameterized" {
  type = "batch"

  parameterized {
    meta_required = ["who"]
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
