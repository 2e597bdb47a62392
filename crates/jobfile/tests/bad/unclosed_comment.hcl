job "web" {
  /* the rest
  group "app" {}
}
