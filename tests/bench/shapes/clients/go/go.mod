module shapes

go 1.24

require github.com/Azure/go-amqp v1.7.0
