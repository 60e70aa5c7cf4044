'use strict'
// Loaded into Node programs of a replay by NODE_OPTIONS. Most versions of Node know nothing of HTTPS_PROXY, so their
// connections are stopped here. The proxy is told first: whoever sees the error can rely on it. Connections on this
// machine go on where the proxy says that they stay within the program.

const net = require('net')

const proxy = new URL(process.env.REPLAYKIT_PROXY || 'http://127.0.0.1:9')
const allowed = new Set((process.env.REPLAYKIT_NETWORK || '').toLowerCase().split(','))
const account = Buffer.from(`${proxy.username}:${proxy.password}`).toString('base64')
const credentials = `proxy-authorization: Basic ${account}`
const connect = net.Socket.prototype.connect

function placeOf(first, second) {
  if (Array.isArray(first)) return placeOf(first[0]) // as `net` itself hands it on
  if (first !== null && typeof first === 'object') return first.path ? null : [first.host || 'localhost', first.port]
  if (typeof first === 'string' && !/^\d+$/.test(first)) return null // the path of a pipe
  return [typeof second === 'string' ? second : 'localhost', first]
}

function isHere(host) {
  return /^(localhost|.*\.localhost|127\..*|::1|::ffff:127\..*|0\.0\.0\.0|::)$/i.test(host)
}

function isAllowed(host, place, port) {
  return [host, place, `*:${port}`, '*'].some(name => allowed.has(name.toLowerCase()))
}

function stop(socket, place, goOn) {
  const text = `replaykit: a live connection to ${place} was stopped: this is a replay`
  const error = Object.assign(new Error(text), { code: 'ECONNREFUSED', syscall: 'connect' })
  const telling = new net.Socket()
  let isOwn = false
  telling.on('error', () => {})
  telling.on('data', answer => {
    isOwn = answer.toString('latin1').startsWith('HTTP/1.1 404')
    telling.destroy()
  })
  telling.on('close', () => (isOwn ? socket.destroyed || goOn() : socket.destroy(error)))
  connect.call(telling, { host: proxy.hostname, port: Number(proxy.port) }, () => {
    const agent = `user-agent: node/${process.version}`
    telling.write(`CONNECT ${place} HTTP/1.1\r\nhost: ${place}\r\n${agent}\r\n${credentials}\r\n\r\n`)
  })
}

net.Socket.prototype.connect = function (...words) {
  const [name, port] = placeOf(words[0], words[1]) || ['localhost']
  const host = String(name)
  const place = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const isProxy = isHere(host) && String(port) === proxy.port
  if (port === undefined || isProxy || isAllowed(host, place, port)) return connect.apply(this, words)
  this.connecting = true // what is written meanwhile waits
  stop(this, place, () => connect.apply(this, words))
  return this
}
