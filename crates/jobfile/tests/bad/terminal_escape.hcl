job "web" {
  "[31mred" = 1
  task "]0;x" {
    driver = "container"
  }
}
