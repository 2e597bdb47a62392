job "web" {
  group "app" {
    cuont = 3
    task "server" {
      driver = "container"
      enviroment {
        PORT = "80"
      }
      resorces {
        cpu = 100
      }
    }
  }
}
