job "a" {
  task "t" {
    driver = "container"
  }
}
job "b" {
  task "t" {
    driver = "container"
  }
}
