job "wéb\u0007" {
  task "server\n" {
    driver = "container"
  }
}
