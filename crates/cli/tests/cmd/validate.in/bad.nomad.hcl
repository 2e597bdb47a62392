job "web" {
  typ = "batch"
  group "front" {
    count = "many"
    task "serve" {
      driver = "raw_exec"
    }
  }
}
