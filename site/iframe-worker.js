// Browsers start no worker for a page that is opened from a folder. There, run the search's worker in a hidden frame.
if (location.protocol === "file:") {
  const scopes = [];
  window.IFrameWorker = class extends EventTarget {
    static takeScope = () => scopes.shift();

    constructor(url) {
      super();
      this.waiting = [];
      scopes.push({
        postMessage: (data) => this.dispatchEvent(new MessageEvent("message", { data })),
        importScripts: async (...urls) => {
          for (const each of urls) await this.load(each);
        },
      });
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc =
        `<script>Object.assign(self, parent.IFrameWorker.takeScope())</script>` +
        `<script src="${new URL(url, document.baseURI)}"></script>`;
      this.frame.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      document.body.append(this.frame);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = document.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        this.frame.contentDocument.head.append(script);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
