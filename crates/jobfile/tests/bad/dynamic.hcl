job "web" {
  dynamic "group" {
    content {}
  }
  dynamic {
    for_each = []
    content {}
  }
  dynamic "constraint" {
    for_each = 3
    content {}
  }
  dynamic "constraint" {
    for_each = [1]
    iterator = "it"
    content {}
  }
  dynamic "group" {
    for_each = [1]
    labels   = "web"
    content {}
  }
  dynamic "group" {
    for_each = [1]
    contents {}
  }
  task "server" {
    driver = "container"
  }
}
