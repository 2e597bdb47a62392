job "web" {
  group "app" {
    count = 2
  }
}
