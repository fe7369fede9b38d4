// Search runs in a worker, which browsers do not start from a file. There, a hidden frame takes its place: messages go
// back and forth as they would, so that pages opened as files can be searched too.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow,
        script = inside.document.createElement("script");
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = () => {}; // stemmers of other languages
      this.send = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      this.started = new Promise((done) => (script.onload = done));
      script.src = new URL(address, location.href).href;
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.started.then(() => this.send(data));
    }
  };
}
