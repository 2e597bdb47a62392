# A job that is run each time somebody asks for it, with what they say as its parameters.
#
#   berth job run -var bucket=films examples/render.nomad.hcl
#   berth job dispatch -meta scene=7 render

variable "bucket" {
  description = "where the pictures go"
  type        = string
  default     = "pictures"
}

variable "sizes" {
  description = "width and height of each picture"
  type        = list(object({ width = number, height = optional(number, 1080) }))
  default     = [{ width = 1920 }, { width = 960, height = 540 }]
}

locals {
  steps = [for size in var.sizes : "echo \"rendering scene $NOMAD_META_scene at ${size.width}x${size.height}\""]
}

job "render" {
  type = "batch"

  parameterized {
    meta_required = ["scene"]
    meta_optional = ["quality"]
  }

  meta {
    bucket  = var.bucket
    quality = "draft"
  }

  group "frames" {
    task "draw" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", join("; ", concat(local.steps, ["echo \"done: $NOMAD_META_bucket\""]))]
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
