job "web" {
  dynamic "group" {
    for_each = range(0, 1001)
    labels   = ["g${group.value}"]
    content {
      task "server" {
        driver = "exec"
        config {
          command = "sleep"
        }
      }
    }
  }
}
